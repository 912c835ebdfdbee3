"""What tests take from launch.slowdown."""

from launch.slowdown import cgroup as cgroup
from launch.slowdown import mps as mps
from launch.slowdown import mps_control as mps_control
from launch.slowdown import throttle as throttle
from launch.slowdown.cgroup import CpuQuota as CpuQuota
from launch.slowdown.cgroup import QuotaUnavailable as QuotaUnavailable
from launch.slowdown.cgroup import Room as Room
from launch.slowdown.duty_cycle import DutyCycle as DutyCycle
from launch.slowdown.mps_control import MpsUnavailable as MpsUnavailable
from launch.slowdown.throttle import NoThrottle as NoThrottle
