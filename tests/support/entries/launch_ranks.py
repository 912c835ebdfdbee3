"""What tests take from launch.ranks."""

from launch.ranks import entry as entry
from launch.ranks import flight_recorder as flight_recorder
from launch.ranks import fork_server as fork_server
from launch.ranks import logs as logs
from launch.ranks import private_network as private_network
from launch.ranks import process as process
from launch.ranks import start as start
from launch.ranks import watch as watch
from launch.ranks.entry import result_report as result_report
from launch.ranks.logs import WAITING_PLACES as WAITING_PLACES
from launch.ranks.logs import innermost_frame as innermost_frame
from launch.ranks.private_network import PrivateNetwork as PrivateNetwork
from launch.ranks.start import started as started
from launch.ranks.watch import Failure as Failure
from launch.ranks.watch import RankEnds as RankEnds
from launch.ranks.watch import root_cause as root_cause
