package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/fleet"
)

const (
	apiTimeout = 10 * time.Second
	// settleTimeout is how long a cluster may take until it answers for all streams.
	settleTimeout = time.Minute
	// maxPayload bounds a message: a chunk of a bundle, an event, a task.
	maxPayload = 8 << 20
	// maxResult bounds a result's message.
	maxResult = 1 << 20
	// keepResults is how long a result waits for its coordinator to come back.
	keepResults = 7 * 24 * time.Hour
	keepBundles = 2 * 24 * time.Hour
)

// Prepare makes the fleet's streams, buckets and tables, or brings them up to
// date. It may run again, and while they are in use.
func Prepare(ctx context.Context, js jetstream.JetStream, replicas int) error {
	names, err := prepareNames(ctx, js, replicas)
	if err != nil {
		return err
	}
	for _, stream := range []jetstream.StreamConfig{
		hidden(names, "fleet.task.>", jetstream.StreamConfig{Name: fleet.StreamTasks, Retention: jetstream.WorkQueuePolicy, MaxMsgSize: 64 << 10}),
		{Name: fleet.StreamResults, Subjects: []string{"fleet.result.>"}, MaxAge: keepResults, MaxMsgSize: maxResult},
		hidden(names, "fleet.journal.>", jetstream.StreamConfig{Name: fleet.StreamJournal, MaxMsgSize: maxPayload}),
	} {
		stream.Storage, stream.Replicas = jetstream.FileStorage, replicas
		if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
			return fmt.Errorf("prepare the stream %s: %w", stream.Name, err)
		}
	}
	for _, table := range []string{fleet.TableMembers, fleet.TableInvites, fleet.TableQueues, fleet.TableOwners, fleet.TableClaims} {
		if err := prepareTable(ctx, js, names.Of(table), replicas); err != nil {
			return err
		}
	}
	if _, err := js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: names.Of(fleet.BucketRuns), Storage: jetstream.FileStorage, Replicas: replicas}); err != nil {
		return fmt.Errorf("prepare the bucket %s: %w", fleet.BucketRuns, err)
	}
	return nil
}

// prepareNames finds the names of the fleet's tables, or gives new ones.
func prepareNames(ctx context.Context, js jetstream.JetStream, replicas int) (fleet.Names, error) {
	names, err := fleet.FindNames(ctx, js)
	if bridge.CodeOf(err) != bridge.CodeNotFound {
		return names, err
	}
	if err := prepareTable(ctx, js, fleet.NewNames().Of(fleet.TableMembers), replicas); err != nil {
		return names, err
	}
	return fleet.FindNames(ctx, js) // another hub may have been faster
}

// hidden makes a stream that keeps messages under their plain subjects, and takes
// them only from who knows its names.
func hidden(names fleet.Names, subjects string, config jetstream.StreamConfig) jetstream.StreamConfig {
	config.Subjects = []string{names.To(subjects)}
	config.SubjectTransform = &jetstream.SubjectTransformConfig{Source: names.To(subjects), Destination: subjects}
	return config
}

// prepareTable makes a table. It is like one that the client makes, but without
// direct reads: in a cluster they may answer with an old state, and who has just
// taken a run over must not read that another has it.
func prepareTable(ctx context.Context, js jetstream.JetStream, table string, replicas int) error {
	config := jetstream.StreamConfig{Name: "KV_" + table, Subjects: []string{"$KV." + table + ".>"}, MaxMsgsPerSubject: 1,
		Storage: jetstream.FileStorage, Replicas: replicas, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true}
	if _, err := js.CreateOrUpdateStream(ctx, config); err != nil {
		return fmt.Errorf("prepare the table %s: %w", table, err)
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
		// So that a stolen worker cannot fill the disk. A limit in bytes would not do: the
		// server sets that much aside for each worker.
		MaxMsgs: fleet.BucketChunks, MaxMsgSize: fleet.ChunkMessage,
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
