package fleet

import "github.com/nats-io/jwt/v2"

// Rights is what a member may publish and subscribe to. A coordinator may do
// everything in the fleet's account.
//
// A worker can make the server send what it asks for to any subject, by the reply
// subject of a request, and there it counts as the server's: subjects of streams and
// of JetStream's own interface too. So it gets no request whose answer is a message
// of its own choice, or an empty one, as an empty request deletes a stream: no
// consumers and no direct reads, only reads that wrap the message in JSON. Such an
// answer has no schema, and every receiver refuses it; what would keep it has a
// secret name (Names). For tickets it asks the hub, which looks where they go.
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
