"""The version of coldness."""

VERSION = "0.11.0"
