package fleet

import "github.com/nats-io/jwt/v2"

// Rights is what a member may publish and subscribe to. A coordinator may do
// everything in the fleet's account.
//
// The server sends an answer to whatever reply subject the request names, with the
// server's own rights. So a worker could have it write to any stream, or call
// JetStream's API, where an empty message deletes a stream. Therefore a worker may
// make no request whose answer it can word, or whose answer may be empty: no
// consumers, no direct reads, only reads that wrap the message in JSON. Those have no
// schema, so every receiver refuses them, and streams that would store them have
// secret names (Names). For tickets it asks the hub, which checks the reply subject.
func Rights(role Role, id string) jwt.Permissions {
	var p jwt.Permissions
	if role == RoleCoordinator {
		p.Pub.Allow.Add(">")
		p.Sub.Allow.Add(">")
		return p
	}
	p.Pub.Allow.Add(HelloSubject(id))
	for _, kind := range []string{"next", "claim", "beat", "event", "ask", "result"} {
		p.Pub.Allow.Add("fleet." + kind + "." + id + ".>")
	}
	bucket := WorkerBucket(id)
	p.Pub.Allow.Add("$O." + bucket + ".>")
	for _, call := range []string{"INFO", "MSG.GET", "PURGE"} {
		p.Pub.Allow.Add("$JS.API.STREAM." + call + ".OBJ_" + bucket)
	}
	p.Sub.Allow.Add(Inbox(id)+".>", OrderSubject(id))
	return p
}

// InvitationRights is what the key of an invitation may do: ask to join.
func InvitationRights(id string) jwt.Permissions {
	var p jwt.Permissions
	p.Pub.Allow.Add(JoinSubject(id))
	p.Sub.Allow.Add(Inbox(id) + ".>")
	return p
}

// RenewalRights is what a member may do with its renewal: ask for a new right,
// after it was away for longer than the old one lasts.
func RenewalRights(id string) jwt.Permissions {
	var p jwt.Permissions
	p.Pub.Allow.Add(RenewSubject(id))
	p.Sub.Allow.Add(Inbox(id) + ".>")
	return p
}
