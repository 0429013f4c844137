package fleet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/copilot-bridge/copilot-bridge/bridge"
)

const (
	chunkSize = 128 << 10
	// MaxBucket is how many bytes the bucket of a worker holds: the history of a large
	// repository, and its results besides.
	MaxBucket = 8 << 30
	// BucketChunks are as many messages of ChunkMessage bytes, with what the server
	// counts besides.
	BucketChunks = MaxBucket / chunkSize
	ChunkMessage = chunkSize + 4<<10
	// inFlight is how many chunks may wait for the server's answer.
	inFlight = 32
)

// PutObject stores what r has in a bucket, as the client's own Put does. That one
// leaves a goroutine behind now and then (nats.go 1.55: what watches the connection
// for it may start after it was to end), so this one publishes with js, which lives
// as long as the connection.
func PutObject(ctx context.Context, js jetstream.JetStream, bucket, name string, r io.Reader) (err error) {
	stream, err := js.Stream(ctx, "OBJ_"+bucket)
	if err != nil {
		return err
	}
	meta := "$O." + bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
	var old jetstream.ObjectInfo
	switch m, err := stream.GetLastMsgForSubject(ctx, meta); {
	case err == nil:
		err = json.Unmarshal(m.Data, &old)
		if err != nil {
			return err
		}
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return err
	}
	info := jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize}}, Bucket: bucket, NUID: rand.Text()}
	useless := &info
	defer func() { err = explainFull(err, bucket) }()
	waiting, err := putChunks(ctx, js, &info, r)
	if err == nil {
		var data []byte
		if data, err = json.Marshal(info); err == nil {
			_, err = js.PublishMsg(ctx, &nats.Msg{Subject: meta, Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}}, Data: data})
		}
	}
	if err == nil {
		useless = &old
	}
	if useless.NUID != "" && !useless.Deleted {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), OneTry)
		defer cancel()
		for _, f := range waiting { // one that comes after the purge would stay
			_ = stored(tidy, f) // whether it is stored does not matter now
		}
		_ = stream.Purge(tidy, jetstream.WithPurgeSubject(chunksOf(bucket, useless))) // chunks that stay waste only space
	}
	return err
}

// explainFull adds a remedy to the error of a full bucket.
func explainFull(err error, bucket string) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && strings.Contains(api.Description, "maximum messages") {
		return FullBucket(bucket, err)
	}
	return err
}

// FullBucket is the error for what a worker's bucket has no room for.
func FullBucket(bucket string, cause error) error {
	return &bridge.Error{Code: bridge.CodeBudget, Message: fmt.Sprintf("the hub keeps at most %d GiB for a worker, and %s has no room for more", MaxBucket>>30, bucket), Cause: cause,
		Remedy: "What lies there goes after two days, or at once with `copilot-bridge fleet remove`; the machine can join again. Work on a repository with a longer history without --fleet."}
}

func chunksOf(bucket string, o *jetstream.ObjectInfo) string {
	return "$O." + bucket + ".C." + o.NUID
}

// putChunks publishes the contents of an object, and notes their size and digest.
// After an error some chunks may be on their way still.
func putChunks(ctx context.Context, js jetstream.JetStream, o *jetstream.ObjectInfo, r io.Reader) (waiting []jetstream.PubAckFuture, err error) {
	sum := sha256.New()
	for end := false; !end || len(waiting) > 0; {
		if !end {
			chunk := make([]byte, chunkSize)
			n, err := io.ReadFull(r, chunk)
			end = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !end {
				return waiting, err
			}
			if n > 0 {
				sum.Write(chunk[:n])
				o.Size, o.Chunks = o.Size+uint64(n), o.Chunks+1
				f, err := js.PublishMsgAsync(&nats.Msg{Subject: chunksOf(o.Bucket, o), Data: chunk[:n]})
				if err != nil {
					return waiting, err
				}
				waiting = append(waiting, f)
			}
		}
		if len(waiting) == 0 || !end && len(waiting) < inFlight {
			continue
		}
		if err := stored(ctx, waiting[0]); err != nil {
			if ctx.Err() == nil { // the server has answered for this one, and does not do so again
				waiting = waiting[1:]
			}
			return waiting, err
		}
		waiting = waiting[1:]
	}
	o.Digest = "SHA-256=" + base64.URLEncoding.EncodeToString(sum.Sum(nil))
	return nil, nil
}

// stored waits until the server has a message.
func stored(ctx context.Context, f jetstream.PubAckFuture) error {
	select {
	case <-f.Ok():
		return nil
	case err := <-f.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
