"""What may break: audits from outside, from inside, strange inputs."""
