// Package openclawtest gives tests the real OpenClaw: its command line and its
// gateway. It is for tests alone, on Linux. They run only with
// `make test-openclaw`, because OpenClaw takes most of a gigabyte and a gateway
// half a minute to start. The tests below test/openclaw call it.
package openclawtest
