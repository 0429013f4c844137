// Package load tests the built binary under load: many clients of the three
// HTTP APIs, clients that hang up and clients that never read. The runtime is
// real; the model is a fake that checks every request. By default the tests
// send a tenth of the load, with COPILOT_BRIDGE_TEST_LONG=1 all of it. They do
// not measure speed, which test/bench does. They read /proc, so they run on
// Linux only.
package load
