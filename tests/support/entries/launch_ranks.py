"""What tests take from launch.ranks."""

from launch.ranks import entry as entry
from launch.ranks import flight_recorder as flight_recorder
from launch.ranks import fork_server as fork_server
from launch.ranks import logs as logs
from launch.ranks import pool as pool
from launch.ranks import private_network as private_network
from launch.ranks import process as process
from launch.ranks import watch as watch
from launch.ranks.entry import encode_result as encode_result
from launch.ranks.logs import WAITING_PLACES as WAITING_PLACES
from launch.ranks.logs import innermost_frame as innermost_frame
from launch.ranks.pool import start_ranks as start_ranks
from launch.ranks.private_network import PrivateNetwork as PrivateNetwork
from launch.ranks.watch import ProcessFailure as ProcessFailure
from launch.ranks.watch import RankResults as RankResults
from launch.ranks.watch import root_cause as root_cause
