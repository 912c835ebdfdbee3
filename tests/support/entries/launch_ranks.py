"""What tests take from launch.ranks."""

from launch.ranks.stack_dump import WAITING_PLACES as WAITING_PLACES
from launch.ranks.start import started as started
from launch.ranks.watch import RankEnds as RankEnds
