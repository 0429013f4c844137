package fleet

import (
	_ "github.com/nats-io/jwt/v2"            // to be used
	_ "github.com/nats-io/nats.go/jetstream" // to be used
	_ "github.com/nats-io/nkeys"             // to be used
)
