package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	apiTimeout = 10 * time.Second
	// maxPayload bounds a message: a chunk of a bundle, an event, a task.
	maxPayload = 8 << 20
	// keepResults is how long a result waits for its coordinator to come back.
	keepResults = 7 * 24 * time.Hour
	keepBundles = 2 * 24 * time.Hour
	// A worker's bucket holds so many chunks (the client makes 128 KiB of them), so
	// that a stolen worker cannot fill the disk. A limit in bytes would not do: the
	// server sets that much aside for each worker.
	maxChunk  = 256 << 10
	maxChunks = 64 << 10
)

// Prepare makes the fleet's streams, buckets and tables, or brings them up to
// date. It may run again, and while they are in use.
func Prepare(ctx context.Context, js jetstream.JetStream, replicas int) error {
	for _, stream := range []jetstream.StreamConfig{
		{Name: fleet.StreamTasks, Subjects: []string{"fleet.task.>"}, Retention: jetstream.WorkQueuePolicy, MaxMsgSize: 64 << 10},
		{Name: fleet.StreamResults, Subjects: []string{"fleet.result.>"}, MaxAge: keepResults, MaxMsgSize: 1 << 20},
		{Name: fleet.StreamJournal, Subjects: []string{"fleet.journal.>"}, MaxMsgSize: maxPayload},
	} {
		stream.Storage, stream.Replicas = jetstream.FileStorage, replicas
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return fmt.Errorf("prepare the stream %s: %w", stream.Name, err)
		}
	}
	for _, table := range []string{fleet.TableMembers, fleet.TableInvites, fleet.TableQueues, fleet.TableOwners, fleet.TableClaims} {
		// It is like one that the client makes, but without direct reads: in a cluster
		// they may answer with an old state, and who has just taken a run over must
		// not read that another has it.
		config := jetstream.StreamConfig{Name: "KV_" + table, Subjects: []string{"$KV." + table + ".>"}, MaxMsgsPerSubject: 1,
			Storage: jetstream.FileStorage, Replicas: replicas, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true}
		if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
			return fmt.Errorf("prepare the table %s: %w", table, err)
		}
	}
	if _, err := js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: fleet.BucketRuns, Storage: jetstream.FileStorage, Replicas: replicas}); err != nil {
		return fmt.Errorf("prepare the bucket %s: %w", fleet.BucketRuns, err)
	}
	return nil
}

// makeBucket makes the object store of a worker. It is one like those that the
// client makes, but without direct reads: their answers go to any subject, and
// are what the worker has put in (see fleet.Rights).
func makeBucket(ctx context.Context, js jetstream.JetStream, worker string, replicas int) error {
	bucket := fleet.WorkerBucket(worker)
	config := jetstream.StreamConfig{
		Name: "OBJ_" + bucket, Subjects: []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"},
		Storage: jetstream.FileStorage, Replicas: replicas, MaxAge: keepBundles, Discard: jetstream.DiscardNew, AllowRollup: true,
		MaxMsgs: maxChunks, MaxMsgSize: maxChunk,
	}
	_, err := js.CreateOrUpdateStream(ctx, config)
	if says(err, noPeers) { // one is away just now; bundles can be sent again
		config.Replicas = 1
		_, err = js.CreateOrUpdateStream(ctx, config)
	}
	if err != nil {
		return fmt.Errorf("make the bucket of %s: %w", worker, err)
	}
	return nil
}
