package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/internal/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/door/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

// maxReceipt bounds what is read of a file.
const maxReceipt = 64 << 20

func (p *program) abpVerifyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Recompute the hash of receipts and compare it with the stored one",
		Long: `Recompute the canonical SHA-256 of receipts and say whether it is the one that is stored
in them. A file may hold a receipt or the "final" envelope that brought it; - is standard
input.

Exit code 1 if a stored hash is missing or is another one, 2 if a file holds no valid
receipt.`,
		Example: `  copilot-bridge abp verify receipt.json
  copilot-bridge abp verify receipts/*.json --json
  jq -c 'select(.t=="final").receipt' session.jsonl | copilot-bridge abp verify -`,
		Args: takes(cobra.MinimumNArgs(1), "one file or more"),
		RunE: func(_ *cobra.Command, args []string) error { return p.runABPVerify(args, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object a file")
	return cmd
}

// verdict is what verify says of a file.
type verdict struct {
	File   string  `json:"file"`
	OK     bool    `json:"ok"`
	SHA256 string  `json:"sha256,omitempty"`
	Stored *string `json:"stored,omitempty"`
	Error  string  `json:"error,omitempty"`
}

func (p *program) runABPVerify(files []string, asJSON bool) error {
	code, bad := exitDone, 0
	for _, name := range files {
		v := verdict{File: withoutTokens(name)}
		r, err := p.readReceipt(name)
		switch {
		case err != nil:
			v.Error = withoutTokens(err.Error())
			code = exitUsage
		default:
			v.SHA256, v.Stored = r.Hash(), r.SHA256
			if v.OK = r.SHA256 != nil && *r.SHA256 == v.SHA256; !v.OK {
				code = max(code, exitFailed)
			}
		}
		if !v.OK {
			bad++
		}
		if err := p.showVerdict(v, asJSON); err != nil {
			return err
		}
	}
	if code == exitDone {
		return nil
	}
	return &exitError{code: code, told: asJSON, err: &bridge.Error{Code: bridge.CodeConflict,
		Message: fmt.Sprintf("%d of %s could not be verified", bad, plural(len(files), "receipt"))}}
}

func (p *program) showVerdict(v verdict, asJSON bool) error {
	if asJSON {
		return p.printJSON(v)
	}
	name := approval.Visible(v.File)
	switch {
	case v.Error != "":
		return p.print("✗ " + name + ": no valid receipt: " + approval.Visible(v.Error) + "\n")
	case v.OK:
		return p.print("✓ " + v.SHA256 + "  " + name + "\n")
	case v.Stored == nil:
		return p.print("✗ " + v.SHA256 + "  " + name + ": no hash is stored\n")
	}
	return p.print("✗ " + v.SHA256 + "  " + name + ": stored is " + approval.Visible(*v.Stored) + "\n")
}

func (p *program) abpCanonicalCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "canonical FILE",
		Short: "Write the exact bytes of a receipt that are hashed",
		Long: `Write the canonical form of a receipt to standard output: compact, keys sorted, null for
the hash, and no line break at the end. Its SHA-256 is the receipt's. - is standard input.`,
		Example: `  copilot-bridge abp canonical receipt.json | sha256sum
  copilot-bridge abp canonical - < receipt.json`,
		Args: takes(cobra.ExactArgs(1), "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := p.readReceipt(args[0])
			if err != nil {
				return &bridge.Error{Code: bridge.CodeInvalid, Message: args[0] + " holds no valid receipt", Cause: err}
			}
			_, err = p.out.Write(r.Canonical())
			return err
		},
	}
}

// readReceipt reads a receipt, or the envelope that carries one.
func (p *program) readReceipt(name string) (*contract.Receipt, error) {
	in, err := p.openFile(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(in, maxReceipt+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxReceipt {
		return nil, fmt.Errorf("it is larger than %d MiB", maxReceipt>>20)
	}
	r, err := contract.ParseReceipt(data)
	if err == nil {
		return r, nil
	}
	if e, eerr := contract.ParseEnvelope(data); eerr == nil {
		if f, ok := e.(*contract.Final); ok {
			return &f.Receipt, nil
		}
	}
	return nil, err
}

// openFile opens a file, or standard input for "-".
func (p *program) openFile(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.env.Stdin), nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.env.Dir, name)
	}
	return os.Open(name)
}

func (p *program) abpValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Judge envelope lines as the Agent Backplane would",
		Long: `Read lines of envelopes (from standard input, or FILE) and write one line for each:
{"ok":true,"envelope":…} with the envelope as the Agent Backplane writes it, or
{"ok":false,"error":…}. The exit code does not depend on the lines.`,
		Example: `  copilot-bridge abp validate < session.jsonl
  copilot-bridge abp validate session.jsonl | jq 'select(.ok|not)'`,
		Args: takes(cobra.MaximumNArgs(1), "at most one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "-"
			if len(args) > 0 {
				name = args[0]
			}
			in, err := p.openFile(name)
			if err != nil {
				return &bridge.Error{Code: bridge.CodeInvalid, Message: "cannot read " + name, Cause: pathCause(err)}
			}
			return errors.Join(p.validateLines(in), in.Close())
		},
	}
}

func (p *program) validateLines(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), contract.MaxLine+2)
	var out []byte
	for lines.Scan() {
		e, err := contract.ParseEnvelope(bytes.TrimSuffix(lines.Bytes(), []byte{'\r'}))
		if err != nil {
			out = contract.AppendString(append(out[:0], `{"ok":false,"error":`...), err.Error())
		} else {
			out = contract.AppendEnvelope(append(out[:0], `{"ok":true,"envelope":`...), e)
		}
		if _, err := p.out.Write(append(out, '}', '\n')); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return &bridge.Error{Code: bridge.CodeInvalid, Message: "the lines cannot be read", Cause: err, Remedy: "a line may have 16 MiB at most"}
	}
	return nil
}
