"""What tests take from benchkit.measure."""

from benchkit.measure import check_schedule as check_schedule
from benchkit.measure import clocks as clocks
from benchkit.measure import disturbance as disturbance
from benchkit.measure import timer as timer
from benchkit.measure.clocks import HostClock as HostClock
from benchkit.measure.disturbance import COUNTERS as COUNTERS
from benchkit.measure.disturbance import numbers_after as numbers_after
from benchkit.measure.disturbance import pressure_s as pressure_s
from benchkit.measure.disturbance import read_counters as read_counters
from benchkit.measure.sampler import DEFAULT_HOOKS as DEFAULT_HOOKS
from benchkit.measure.sampler import LONGEST_S as LONGEST_S
from benchkit.measure.sampler import MARGIN as MARGIN
from benchkit.measure.sampler import SLACK_S as SLACK_S
from benchkit.measure.sampler import Hooks as Hooks
from benchkit.measure.sampler import LaunchDelay as LaunchDelay
from benchkit.measure.timer import FEWEST_TO_STOP as FEWEST_TO_STOP
from benchkit.measure.timer import Measurement as Measurement
from benchkit.measure.timer import block_size as block_size
from benchkit.measure.timer import measure as measure
