// Package openclawtest gives tests the real OpenClaw: its command line and its
// gateway. It is for tests alone, on Linux.
//
// OpenClaw and the Node that it needs are installed once into the user's cache
// directory, outside any repository, keyed by the lock file, and shared by all
// test packages and runs. That is most of a gigabyte, and a gateway takes half
// a minute to start, so these tests run only when they are asked for, with
// `make test-openclaw`; then they fail where others would be skipped.
package openclawtest
