"""The version of coldness."""

VERSION = "0.10.0"
