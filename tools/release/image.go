package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"time"
)

// descriptor names a blob of an OCI image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// image writes an OCI image for Linux as an archive of an image layout, which
// podman, skopeo and docker load. It holds the program alone, for others to copy
// from: what the program runs (git, Node, Copilot's runtime) is in the image that
// the Dockerfile makes.
func (r *release) image() error {
	l := layout{date: r.Date, blobs: map[string][]byte{}}
	var manifests []descriptor
	for _, a := range r.of("Binary") {
		if a.OS != "linux" {
			continue
		}
		binary, err := os.ReadFile(a.Path)
		if err != nil {
			return err
		}
		m, err := l.manifest(r, a, binary)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	index, err := l.addJSON(mediaIndex, map[string]any{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": manifests})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.Version}
	data, err := l.archive(index)
	if err != nil {
		return err
	}
	return r.write("copilot-bridge_"+r.Version+"_oci.tar", data)
}

// layout is an OCI image layout in the making.
type layout struct {
	date  time.Time
	order []string
	blobs map[string][]byte // by digest
}

func (l *layout) add(mediaType string, data []byte) descriptor {
	sum := digest(data)
	if l.blobs[sum] == nil {
		l.order, l.blobs[sum] = append(l.order, sum), data
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(data)}
}

func (l *layout) addJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.add(mediaType, data), err
}

func (l *layout) manifest(r *release, a artifact, binary []byte) (descriptor, error) {
	files, err := l.tar([]file{
		{"etc/passwd", 0o644, []byte("bridge:x:65532:65532::/home/bridge:/sbin/nologin\n")},
		{"usr/bin/copilot-bridge", 0o755, binary},
	})
	if err != nil {
		return descriptor{}, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(files); err != nil {
		return descriptor{}, err
	}
	if err := z.Close(); err != nil {
		return descriptor{}, err
	}
	layer := l.add(mediaLayer, packed.Bytes())
	labels := map[string]string{"org.opencontainers.image.title": "copilot-bridge", "org.opencontainers.image.version": r.Version,
		"org.opencontainers.image.revision": r.Commit, "org.opencontainers.image.licenses": "MIT", "org.opencontainers.image.source": "https://github.com/copilot-bridge/copilot-bridge"}
	config, err := l.addJSON(mediaConfig, map[string]any{
		"created": l.date.Format(time.RFC3339), "architecture": a.Arch, "os": a.OS,
		"config":  map[string]any{"User": "65532:65532", "Entrypoint": []string{"/usr/bin/copilot-bridge"}, "Env": []string{"PATH=/usr/bin:/bin", "HOME=/home/bridge"}, "Labels": labels},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(files)}},
		"history": []map[string]any{{"created": l.date.Format(time.RFC3339), "created_by": "tools/release"}},
	})
	if err != nil {
		return descriptor{}, err
	}
	m, err := l.addJSON(mediaManifest, map[string]any{"schemaVersion": 2, "mediaType": mediaManifest, "config": config, "layers": []descriptor{layer}})
	m.Platform = &platform{Architecture: a.Arch, OS: a.OS}
	return m, err
}

// file is an entry of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

func (l *layout) tar(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: l.date, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archive is the layout as one file.
func (l *layout) archive(index descriptor) ([]byte, error) {
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []descriptor{index}})
	if err != nil {
		return nil, err
	}
	files := []file{{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, top}}
	for _, sum := range l.order {
		files = append(files, file{"blobs/sha256/" + sum, 0o644, l.blobs[sum]})
	}
	return l.tar(files)
}
