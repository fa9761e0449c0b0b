"""The version of coldness."""

VERSION = "0.8.0"
