"""The version of coldness."""

VERSION = "0.9.0"
