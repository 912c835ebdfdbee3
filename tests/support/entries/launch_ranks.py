"""What tests take from launch.ranks."""

from launch.ranks.failure import Failure as Failure
