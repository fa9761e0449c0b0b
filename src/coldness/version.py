"""The version of coldness."""

VERSION = "0.7.0"
