"""What tests take from launch.slowdown."""

from launch.slowdown import cgroup as cgroup
from launch.slowdown import mps as mps
from launch.slowdown.cgroup import CgroupParent as CgroupParent
from launch.slowdown.cgroup import CpuQuota as CpuQuota
from launch.slowdown.cgroup import NoThrottle as NoThrottle
from launch.slowdown.cgroup import QuotaUnavailable as QuotaUnavailable
from launch.slowdown.duty_cycle import DutyCycle as DutyCycle
from launch.slowdown.mps import MpsUnavailable as MpsUnavailable
