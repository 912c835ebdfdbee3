"""What tests take from benchkit.rank."""

from benchkit.rank import main as main
from benchkit.rank.soundness import require_references as require_references
