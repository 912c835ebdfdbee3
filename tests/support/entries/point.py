"""What tests take from benchkit.point."""

from benchkit.point import agents as agents
from benchkit.point import ranks as ranks
from benchkit.point import run as run
from benchkit.point.agents import AgentFacts as AgentFacts
from benchkit.point.agents import AgentGroup as AgentGroup
from benchkit.point.agents import gather_facts as gather_facts
from benchkit.point.placement import lack_of_gpus as lack_of_gpus
from benchkit.point.placement import place_ranks as place_ranks
from benchkit.point.placement import rank_environment as rank_environment
from benchkit.point.placement import unsuited as unsuited
from benchkit.point.point import AgentEnd as AgentEnd
from benchkit.point.point import Point as Point
from benchkit.point.point import classify as classify
from benchkit.point.point import durations as durations
from benchkit.point.point import failure_status as failure_status
from benchkit.point.point import placed as placed
from benchkit.point.ranks import FRESH_EVERY as FRESH_EVERY
from benchkit.point.ranks import KeptRanks as KeptRanks
from benchkit.point.ranks import chosen as chosen
from benchkit.point.ranks import is_reused as is_reused
from benchkit.point.ranks import leaves_ranks_sound as leaves_ranks_sound
from benchkit.point.ranks import with_alone as with_alone
from benchkit.point.run import crowding as crowding
from benchkit.point.run import set_aside as set_aside
