package fleet

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"slices"
	"strings"
)

// Schema is the version of the messages. A message of another one is refused
// with a sentence, never dropped.
const Schema = 1

// The streams, buckets and tables that the hub makes.
const (
	// StreamTasks is the work queue of tickets: fleet.task.<queue>.<run>.<task>.
	// It has one consumer for each queue, named like the queue.
	StreamTasks = "TASKS"
	// StreamResults keeps what workers delivered until its coordinator has it:
	// fleet.result.<worker>.<run>.<task>.<claim>.
	StreamResults = "RESULTS"
	// StreamJournal has the events of runs: fleet.journal.<run>. It is the judge of
	// who owns a run: each append names the last entry that its writer knows.
	StreamJournal = "JOURNAL"
	// BucketRuns has the commits of runs and events too large for a message:
	// <run>/<name>.
	BucketRuns = "RUNS"

	TableMembers = "MEMBERS" // by member id: MemberRecord
	TableInvites = "INVITES" // by invitation id: what is left of it
	TableQueues  = "QUEUES"  // by queue: the labels that it asks for
	TableOwners  = "OWNERS"  // by run: Owner
	TableClaims  = "CLAIMS"  // by run.task (Token): Claim, each step a compare-and-set
)

// Subjects. Those of a worker hold its id second, and it may publish on no
// others; see Rights.
func TaskSubject(queue, run, task string) string {
	return "fleet.task." + queue + "." + run + "." + Token(task)
}
func JournalSubject(run string) string        { return "fleet.journal." + run }
func HelloSubject(member string) string       { return "fleet.hello." + member }
func RenewSubject(member string) string       { return "fleet.renew." + member }
func OrderSubject(member string) string       { return "fleet.order." + member }
func NextSubject(worker, queue string) string { return "fleet.next." + worker + "." + queue }
func ClaimSubject(worker, run string) string  { return "fleet.claim." + worker + "." + run }
func JoinSubject(invite string) string        { return "fleet.join." + invite }
func AdminSubject(verb string) string         { return "fleet.admin." + verb }

// WorkSubject is where a worker tells of a claim: kind is beat, event, ask or
// result.
func WorkSubject(kind, worker, run, task, claim string) string {
	return "fleet." + kind + "." + worker + "." + run + "." + Token(task) + "." + claim
}

// Inbox is the prefix of a member's replies.
func Inbox(member string) string { return "inbox." + member }

// WorkerBucket is the object store between a worker and its coordinators.
func WorkerBucket(worker string) string { return "w-" + worker }

// ClaimKey is the key of a task in TableClaims.
func ClaimKey(run, task string) string { return run + "." + Token(task) }

var plainToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Token makes one word of a subject out of an id, which may hold anything.
func Token(id string) string {
	if plainToken.MatchString(id) {
		return id
	}
	return "x-" + digest(id, 26)
}

// Queue names the queue for tasks that ask for these labels, as k=v or k.
func Queue(labels []string) string {
	if len(labels) == 0 {
		return "any"
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(labels)))
	return "q-" + digest(strings.Join(sorted, "\n"), 16)
}

// MemberID is the id of a machine: its name, made safe, and a part of the hash
// of its public key.
func MemberID(name, publicKey string) string {
	safe := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(name)), "-")
	if safe == "" {
		safe = "machine"
	}
	return safe[:min(len(safe), 30)] + "-" + digest(publicKey, 8)
}

func digest(s string, n int) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:n]
}
