package acp

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/acpwire"
)

// mostRead bounds a mentioned file. Copilot opens a longer one with its tools.
const mostRead = 256 << 10

// read makes a prompt of content blocks. Attaching files by path would bypass the
// policy: the client sends a file, under the policy, or Copilot opens it itself.
func (s *session) read(ctx context.Context, blocks []acpwire.ContentBlock) (bridge.Prompt, error) {
	var p bridge.Prompt
	var words, context []string
	for i, b := range blocks {
		at := "prompt[" + strconv.Itoa(i) + "]"
		switch b.Type {
		case acpwire.ContentText:
			words = append(words, b.Text)
		case acpwire.ContentImage:
			data, err := base64.StdEncoding.DecodeString(b.Data)
			if err != nil || len(data) == 0 {
				return p, invalid(at+".data", "it is not base64 of an image")
			}
			p.Attachments = append(p.Attachments, bridge.Attachment{Name: blockName(b, "image"), Data: data, MIME: b.MIMEType})
		case acpwire.ContentResourceLink:
			words = append(words, mention(b))
			if text, ok := s.consult(ctx, b.URI); ok {
				context = append(context, quote(b.URI, text))
			}
		case acpwire.ContentResource:
			r := b.Resource
			switch {
			case r == nil:
				return p, invalid(at+".resource", "it is required")
			case r.Text != nil:
				words = append(words, mention(acpwire.ContentBlock{URI: r.URI}))
				context = append(context, quote(r.URI, *r.Text))
			case r.Blob != nil:
				data, err := base64.StdEncoding.DecodeString(*r.Blob)
				if err != nil || len(data) == 0 {
					return p, invalid(at+".resource.blob", "it is not base64")
				}
				p.Attachments = append(p.Attachments, bridge.Attachment{Name: blockName(acpwire.ContentBlock{URI: r.URI}, "file"), Data: data, MIME: r.MIMEType})
			default:
				return p, invalid(at+".resource", "it has neither a text nor a blob")
			}
		case acpwire.ContentAudio:
			return p, invalid(at+".type", "sound cannot be taken in")
		default:
			return p, invalid(at+".type", fmt.Sprintf("there is no content of type %q", b.Type))
		}
	}
	p.Text = strings.TrimSpace(strings.Join(words, ""))
	if len(context) > 0 {
		p.Text = strings.TrimSpace(p.Text + "\n\n" + strings.Join(context, "\n"))
	}
	if p.Text == "" && len(p.Attachments) == 0 {
		return p, invalid("prompt", "it is empty")
	}
	if p.Text == "" {
		p.Text = "See what is attached."
	}
	return p, nil
}

// mention is how the words of a prompt name a resource.
func mention(b acpwire.ContentBlock) string {
	name := blockName(b, "resource")
	if file, ok := filePath(b.URI); ok {
		return "[@" + name + "](" + file + ")"
	}
	return "[@" + name + "](" + b.URI + ")"
}

func blockName(b acpwire.ContentBlock, otherwise string) string {
	if b.Name != "" {
		return b.Name
	}
	if u, err := url.Parse(b.URI); err == nil && path.Base(u.Path) != "." && path.Base(u.Path) != "/" {
		return path.Base(u.Path)
	}
	return otherwise
}

// quote is a resource's text in a prompt.
func quote(uri, text string) string {
	if file, ok := filePath(uri); ok {
		uri = file
	}
	return "<context ref=" + strconv.Quote(uri) + ">\n" + strings.TrimSuffix(text, "\n") + "\n</context>"
}

// filePath is the path of a file on this machine that a URI names.
func filePath(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", false
	}
	p := u.Path
	if runtime.GOOS == "windows" {
		p = strings.TrimPrefix(p, "/")
	}
	return filepath.FromSlash(p), true
}

// consult asks the client for a mentioned file, with unsaved changes, if the policy
// lets it be read.
func (s *session) consult(ctx context.Context, uri string) (string, bool) {
	file, ok := filePath(uri)
	s.door.mu.Lock()
	reads := s.door.client.FS.Read
	s.door.mu.Unlock()
	if !ok || !reads {
		return "", false
	}
	text, err := s.live.Consult(ctx, file, func(ctx context.Context) (string, error) {
		var r acpwire.ReadTextFileResponse
		err := s.door.conn.Call(ctx, acpwire.MethodReadTextFile, acpwire.ReadTextFileRequest{SessionID: s.live.ID(), Path: file}, &r)
		return r.Content, err
	})
	if err != nil || len(text) > mostRead {
		s.door.opts.Logger.Debug("acp.file_left_to_copilot", "file", file, "error", err)
		return "", false
	}
	return text, true
}
