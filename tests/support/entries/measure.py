"""What tests take from benchkit.measure."""

from benchkit.measure import cuda_clock as cuda_clock
from benchkit.measure import disturbance as disturbance
from benchkit.measure import timer as timer
from benchkit.measure.budget import FEWEST_TO_STOP as FEWEST_TO_STOP
from benchkit.measure.budget import block_size as block_size
from benchkit.measure.clocks import HostClock as HostClock
from benchkit.measure.disturbance import COUNTERS as COUNTERS
from benchkit.measure.disturbance import numbers_after as numbers_after
from benchkit.measure.disturbance import pressure_s as pressure_s
from benchkit.measure.disturbance import read_counters as read_counters
from benchkit.measure.hooks import DEFAULT_HOOKS as DEFAULT_HOOKS
from benchkit.measure.hooks import Hooks as Hooks
from benchkit.measure.lead import LONGEST_S as LONGEST_S
from benchkit.measure.lead import MARGIN as MARGIN
from benchkit.measure.lead import SLACK_S as SLACK_S
from benchkit.measure.lead import Lead as Lead
from benchkit.measure.measurement import Measurement as Measurement
from benchkit.measure.timer import measure as measure
