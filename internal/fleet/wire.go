package fleet

import (
	"encoding/json"
	"time"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

// The times that members agree on.
const (
	HelloEvery = 2 * time.Second  // a worker's sign of life to the hub
	BeatEvery  = 2 * time.Second  // and for each claim to its coordinator
	Lease      = 15 * time.Second // a claim without a sign of life for so long is lost
)

// Ticket is a message of the work queue. It says that a task waits, not what
// the task is: that comes with the claim, to one worker.
type Ticket struct {
	Schema  int      `json:"schema"`
	Run     string   `json:"run"`
	Task    string   `json:"task"`
	Attempt int      `json:"attempt"`
	Labels  []string `json:"labels,omitempty"`
	Repo    string   `json:"repo"` // names the mirror that would help
}

// AckHeader has the subject on which a ticket is acknowledged. It is a header because
// only the server may send a message whose reply subject begins with $JS.ACK.
const AckHeader = "Fleet-Ack"

// NextRequest asks for tickets of a queue, a request on NextSubject. The hub
// answers it as the server does one for the next messages of a consumer.
type NextRequest struct {
	Schema int `json:"schema"`
	Batch  int `json:"batch"`
	// Expires is how long to wait for the first ticket; 0 means not at all.
	Expires time.Duration `json:"expires_ns,omitempty"`
	// Return is the reply subject of a ticket's message that the worker has no use
	// for now. It asks for nothing then.
	Return string `json:"return,omitempty"`
}

// ClaimRequest is a worker's wish to do a task, a request on ClaimSubject.
type ClaimRequest struct {
	Schema int    `json:"schema"`
	Ticket Ticket `json:"ticket"`
	// Ack is the reply subject of the ticket's message. The coordinator extends
	// and ends the ticket; a worker may not.
	Ack string `json:"ack"`
	// Have are commits of the repository that the worker's mirror holds.
	Have []string `json:"have,omitempty"`
	// Models are the ids that the worker's account offers; empty means unknown.
	Models []string `json:"models,omitempty"`
	Demo   bool     `json:"demo,omitempty"` // it answers with the demo model
}

// ClaimReply answers it: an assignment, or why there is none.
type ClaimReply struct {
	Schema     int           `json:"schema"`
	Assignment *Assignment   `json:"assignment,omitempty"`
	Later      bool          `json:"later,omitempty"` // the claim holds; ask again for its assignment
	Refused    *bridge.Error `json:"refused,omitempty"`
}

// Assignment is one attempt at one task, from one commit.
type Assignment struct {
	Schema  int    `json:"schema"`
	Run     string `json:"run"`
	Task    string `json:"task"`
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"` // this is the only one that may deliver
	// Goal is the whole task, Description this one, Needs what it builds on.
	Goal        string `json:"goal"`
	Description string `json:"description"`
	Complexity  string `json:"complexity,omitempty"`
	Needs       []Need `json:"needs,omitempty"`

	Repo   string `json:"repo"`
	Begin  string `json:"begin"`            // the commit on which the attempt builds
	Prefix string `json:"prefix,omitempty"` // the directory of the repository to work in
	Bundle Bundle `json:"bundle"`           // holds Begin; without Object the worker has it

	Labels []string `json:"labels,omitempty"`
	// Policy is the coordinator's, as internal/app writes and reads it. The worker's
	// own stays in force; the stricter answer counts. PolicyDigest is its SHA-256.
	Policy       json.RawMessage `json:"policy,omitempty"`
	PolicyDigest string          `json:"policy_digest,omitempty"`
	Model        string          `json:"model,omitempty"`
	Effort       string          `json:"effort,omitempty"`
	Limits       Limits          `json:"limits"`
}

// Need is the result of a task that another builds on.
type Need struct {
	ID      string   `json:"id"`
	Summary string   `json:"summary"`
	Files   []string `json:"files,omitempty"`
}

// Limits bound an attempt. Zero means no bound.
type Limits struct {
	Timeout     time.Duration `json:"timeout_ns,omitempty"`
	BundleBytes int64         `json:"bundle_bytes,omitempty"` // of the result
}

// Bundle is a git bundle in the worker's bucket.
type Bundle struct {
	Object string `json:"object,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // hexadecimal
}

// Beat is a sign of life of a claim. A worker sends it until its claim is
// accepted, refused or canceled. The coordinator answers a beat of a claim that
// is not current with the order that got lost: accepted, refused or cancel.
type Beat struct {
	Schema int `json:"schema"`
	// GivenUp: the worker ends and will deliver nothing. The ticket is free at once.
	GivenUp bool `json:"given_up,omitempty"`
}

// Event is progress of a claim, without secrets. It counts as a beat.
type Event struct {
	Schema  int          `json:"schema"`
	Text    string       `json:"text,omitempty"`
	Usage   bridge.Usage `json:"usage,omitzero"`
	Session string       `json:"session,omitempty"` // on the worker
}

// Ask is a question of a claim's session to the coordinator's person. Question
// and the answer are as internal/app writes and reads them.
type Ask struct {
	Schema   int             `json:"schema"`
	Question json.RawMessage `json:"question"`
	Until    time.Time       `json:"until,omitzero"`
}

// Reply answers a question. With Refused it is a no.
type Reply struct {
	Schema  int             `json:"schema"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Refused *bridge.Error   `json:"refused,omitempty"`
}

// Result is how an attempt ended. It is published to StreamResults with the
// claim as its message id.
type Result struct {
	Schema  int           `json:"schema"`
	Run     string        `json:"run"`
	Task    string        `json:"task"`
	Attempt int           `json:"attempt"`
	Claim   string        `json:"claim"`
	Error   *bridge.Error `json:"error,omitempty"`
	Summary string        `json:"summary,omitempty"`
	Usage   bridge.Usage  `json:"usage,omitzero"`
	Tools   int           `json:"tools,omitempty"`
	Denied  int           `json:"denied,omitempty"`
	Session string        `json:"session,omitempty"`
	// Commit is the result: Begin itself, or one commit whose only parent is Begin.
	Commit string `json:"commit,omitempty"`
	Bundle Bundle `json:"bundle,omitzero"` // holds Commit, if it is not Begin
}

// Order tells a worker something at once. Orders may get lost; the answers to
// hellos say the same.
type Order struct {
	Schema  int       `json:"schema"`
	Kind    OrderKind `json:"kind"`
	Run     string    `json:"run,omitempty"`
	Task    string    `json:"task,omitempty"`
	Claim   string    `json:"claim,omitempty"`
	Message string    `json:"message,omitempty"`
	Queues  []string  `json:"queues,omitempty"`
}

// OrderKind is what a worker is told.
type OrderKind string

// The orders.
const (
	OrderCancel   OrderKind = "cancel"   // end the claim, or all of the run if none is named; deliver nothing
	OrderAccepted OrderKind = "accepted" // the claim's result is in; forget it
	OrderRefused  OrderKind = "refused"  // it was refused, as Message says; forget it
	OrderQueues   OrderKind = "queues"   // these are the queues to take tickets from
	OrderDrain    OrderKind = "drain"    // finish what is begun, take nothing new
	OrderRemoved  OrderKind = "removed"  // this machine is no longer in the fleet
)

// Claim is a task's present claim, in TableClaims.
type Claim struct {
	Schema  int       `json:"schema"`
	Owner   string    `json:"owner"` // Owner.Epoch of the coordinator that gave it
	Claim   string    `json:"claim"`
	Worker  string    `json:"worker"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	// State is claimed, accepted or lost.
	State string `json:"state"`
	// Begin and Result tell a coordinator that takes over where the claim stands.
	Begin  string `json:"begin"`
	Result string `json:"result,omitempty"` // the accepted commit
}

// The states of a claim.
const (
	StateClaimed  = "claimed"
	StateAccepted = "accepted"
	StateLost     = "lost"
)

// Owner is the coordinator of a run, in TableOwners. Beat is renewed while it lives.
type Owner struct {
	Schema int       `json:"schema"`
	Member string    `json:"member"`
	Host   string    `json:"host"`
	PID    int       `json:"pid"`
	Epoch  string    `json:"epoch"`
	Beat   time.Time `json:"beat"`
	Task   string    `json:"task,omitempty"` // what the run is about, shortened
	Dir    string    `json:"dir,omitempty"`  // on the owner's machine
	Ended  bool      `json:"ended,omitempty"`
}

// Role is what a member may do.
type Role string

// The roles.
const (
	RoleWorker      Role = "worker"
	RoleCoordinator Role = "coordinator" // runs orchestrations and manages the fleet
)

// Starting is why a worker takes no tasks in its first seconds, in Hello.NotReady.
const Starting = "it is starting"

// Hello is a worker's sign of life, a request on HelloSubject.
type Hello struct {
	Schema   int               `json:"schema"`
	Name     string            `json:"name"`
	Host     string            `json:"host"`
	Version  string            `json:"version"`
	OS       string            `json:"os"`
	Arch     string            `json:"arch"`
	Labels   map[string]string `json:"labels,omitempty"` // its own; those of the invitation count besides
	Capacity int               `json:"capacity"`
	Running  []Running         `json:"running"`
	// NotReady is why it takes no tasks, such as a missing login; "" if it does.
	NotReady string    `json:"not_ready,omitempty"`
	Answers  string    `json:"answers,omitempty"` // who answers there: github, a provider, demo
	Since    time.Time `json:"since"`
	Draining bool      `json:"draining,omitempty"`
	// Anew is true until a program's first hello is answered: it ends a drain.
	Anew bool `json:"anew,omitempty"`
	// Conn.Hello fills these in: when the member's right ends, and how long the
	// last hello took, there and back.
	Expires time.Time     `json:"expires,omitzero"`
	Lag     time.Duration `json:"lag_ns,omitempty"`
}

// Running is a claim at work.
type Running struct {
	Run   string    `json:"run"`
	Task  string    `json:"task"`
	Claim string    `json:"claim"`
	Since time.Time `json:"since"`
}

// HelloReply answers it.
type HelloReply struct {
	Schema   int           `json:"schema"`
	Queues   []string      `json:"queues"` // whose labels the worker has
	Draining bool          `json:"draining,omitempty"`
	JWT      string        `json:"jwt,omitempty"` // a new one, in place of one that ends soon
	Renewal  string        `json:"renewal,omitempty"`
	Refused  *bridge.Error `json:"refused,omitempty"`
}

// JoinRequest asks to become a member, by the right of an invitation.
type JoinRequest struct {
	Schema  int    `json:"schema"`
	Key     string `json:"key"`   // the machine's public NKey; the private one stays there
	Proof   string `json:"proof"` // the invitation's id, signed with it (base64)
	Name    string `json:"name"`
	Host    string `json:"host"`
	Version string `json:"version"`
}

// JoinReply makes it one.
type JoinReply struct {
	Schema  int           `json:"schema"`
	Fleet   string        `json:"fleet,omitempty"`
	Member  string        `json:"member,omitempty"`
	Role    Role          `json:"role,omitempty"`
	Labels  []string      `json:"labels,omitempty"` // given with the invitation
	JWT     string        `json:"jwt,omitempty"`
	Renewal string        `json:"renewal,omitempty"` // a right to nothing but asking for a new JWT
	Refused *bridge.Error `json:"refused,omitempty"`
}

// MemberRecord is what the fleet knows of a member, in TableMembers.
type MemberRecord struct {
	Schema   int       `json:"schema"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Role     Role      `json:"role"`
	Key      string    `json:"key"`
	Labels   []string  `json:"labels,omitempty"` // given with the invitation
	Offers   []string  `json:"offers,omitempty"` // those and its own, as of its last hello
	Invite   string    `json:"invite,omitempty"`
	Joined   time.Time `json:"joined"`
	Draining bool      `json:"draining,omitempty"`
	Removed  bool      `json:"removed,omitempty"`
}

// InviteRequest asks the hub for an invitation (AdminSubject "invite").
type InviteRequest struct {
	Schema int           `json:"schema"`
	Role   Role          `json:"role"`
	Labels []string      `json:"labels,omitempty"`
	Uses   int           `json:"uses"`
	For    time.Duration `json:"for_ns"`
}

// InviteReply has the line to paste.
type InviteReply struct {
	Schema  int           `json:"schema"`
	ID      string        `json:"id,omitempty"`
	Line    string        `json:"line,omitempty"`
	Expires time.Time     `json:"expires,omitzero"`
	Refused *bridge.Error `json:"refused,omitempty"`
}

// MemberRequest names a member to drain or to remove (AdminSubject "drain",
// "remove"), by its id, the beginning of one, or its name.
type MemberRequest struct {
	Schema int    `json:"schema"`
	Member string `json:"member"`
}

// MemberReply says which member it was.
type MemberReply struct {
	Schema  int           `json:"schema"`
	Member  string        `json:"member,omitempty"`
	Refused *bridge.Error `json:"refused,omitempty"`
}

// Status is the state of the fleet (AdminSubject "status").
type Status struct {
	Schema  int            `json:"schema"`
	Fleet   string         `json:"fleet"`
	URLs    []string       `json:"urls"`
	Version string         `json:"version"`
	Since   time.Time      `json:"since"`
	Workers []WorkerStatus `json:"workers"`
	// Coordinators are the machines that may give work and manage the fleet.
	Coordinators []MemberRecord `json:"coordinators,omitempty"`
	Queues       []QueueStatus  `json:"queues"`
	Runs         []RunStatus    `json:"runs"`
	Refused      *bridge.Error  `json:"refused,omitempty"`
}

// QueueRecord is a queue, in TableQueues.
type QueueRecord struct {
	Schema int      `json:"schema"`
	Labels []string `json:"labels,omitempty"`
}

// InviteRecord is what is left of an invitation, in TableInvites.
type InviteRecord struct {
	Schema  int       `json:"schema"`
	Role    Role      `json:"role"`
	Labels  []string  `json:"labels,omitempty"`
	Uses    int       `json:"uses"` // that are left
	Expires time.Time `json:"expires"`
	Members []string  `json:"members,omitempty"` // who used it
	Key     string    `json:"key,omitempty"`     // its public one
}

// WorkerStatus is a worker as the hub knows it.
type WorkerStatus struct {
	MemberRecord
	Online bool          `json:"online"`
	Seen   time.Time     `json:"seen,omitzero"`
	Hello  *Hello        `json:"hello,omitempty"`  // the last one
	Lag    time.Duration `json:"lag_ns,omitempty"` // of its connection, there and back
}

// QueueStatus is how many tickets wait in a queue.
type QueueStatus struct {
	Queue   string   `json:"queue"`
	Labels  []string `json:"labels,omitempty"`
	Waiting int      `json:"waiting"`
	Claimed int      `json:"claimed"`
}

// RunStatus is a run whose journal the fleet has.
type RunStatus struct {
	Run   string `json:"run"`
	Owner Owner  `json:"owner"`
	Alive bool   `json:"alive"`
}
