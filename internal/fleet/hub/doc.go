// Package hub runs the server of a fleet, or looks after one that exists: it
// makes streams and tables, lets machines in by invitation, renews and takes back
// their rights, and knows which workers are there.
package hub

import _ "github.com/nats-io/nats-server/v2/server" // to be used
