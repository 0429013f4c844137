package openai

import (
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
)

// imageAttachment makes an attachment of the URL that a client gave for an image. Only
// data: URLs hold one: the bridge fetches nothing on a client's behalf.
func imageAttachment(address string, number int) (bridge.Attachment, error) {
	scheme, _, _ := strings.Cut(address, ":")
	if strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") {
		return bridge.Attachment{}, errors.New("the bridge does not fetch images for its clients: send the image itself as a data: URL (data:image/png;base64,…)")
	}
	kind, data, err := dataURL(address)
	if err != nil {
		return bridge.Attachment{}, err
	}
	format, isImage := strings.CutPrefix(kind, "image/")
	if !isImage {
		return bridge.Attachment{}, fmt.Errorf("expected an image, got %q", kind)
	}
	format, _, _ = strings.Cut(format, "+") // svg+xml
	return bridge.Attachment{Name: fmt.Sprintf("image-%d.%s", number, format), Data: data, MIME: kind}, nil
}

// fileAttachment makes an attachment of a file's content, which clients send as a data:
// URL or as bare base64.
func fileAttachment(name, content string, number int) (bridge.Attachment, error) {
	var kind string
	var data []byte
	var err error
	if strings.HasPrefix(content, "data:") {
		kind, data, err = dataURL(content)
	} else if data, err = decode64(content); err == nil {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(data))
	}
	if err != nil {
		return bridge.Attachment{}, err
	}
	// Only the last element: it is a name, not a place on this machine.
	if name = path.Base(strings.ReplaceAll(name, `\`, "/")); name == "." || name == "/" || name == ".." {
		name = fmt.Sprintf("file-%d", number)
	}
	return bridge.Attachment{Name: name, Data: data, MIME: kind}, nil
}

// dataURL takes a data: URL apart.
func dataURL(s string) (kind string, data []byte, err error) {
	rest, ok := strings.CutPrefix(s, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return "", nil, errors.New("expected a data: URL (data:TYPE;base64,…)")
	}
	media, is64 := strings.CutSuffix(head, ";base64")
	if media == "" || strings.HasPrefix(media, ";") {
		media = "text/plain" + media
	}
	if kind, _, err = mime.ParseMediaType(media); err != nil {
		return "", nil, errors.New("the data: URL has no proper media type")
	}
	if is64 {
		data, err = decode64(body)
		return kind, data, err
	}
	plain, err := url.PathUnescape(body)
	if err != nil {
		return "", nil, errors.New("the data: URL has a broken escape")
	}
	if plain == "" {
		return "", nil, errors.New("there is no data in it")
	}
	return kind, []byte(plain), nil
}

// decode64 reads base64 of either alphabet, padded or not.
func decode64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	data, err := encoding.DecodeString(s)
	if err != nil {
		return nil, errors.New("the data is not valid base64")
	}
	if len(data) == 0 {
		return nil, errors.New("there is no data in it")
	}
	return data, nil
}
