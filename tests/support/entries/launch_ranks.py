"""What tests take from launch.ranks."""
