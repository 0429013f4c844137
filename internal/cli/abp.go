package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/copilot-bridge/copilot-bridge/bridge"
	"github.com/copilot-bridge/copilot-bridge/internal/api/abp/contract"
	"github.com/copilot-bridge/copilot-bridge/internal/app"
	"github.com/copilot-bridge/copilot-bridge/internal/cli/view"
	"github.com/copilot-bridge/copilot-bridge/internal/guard/approval"
)

func (p *program) abpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "abp",
		Short: "Run as an Agent Backplane sidecar, or check its receipts",
		Long: `Run as a sidecar of the Agent Backplane: read one work order from standard input, do it
and write its receipt to standard output. Logs and messages go to standard error.

The policy of the work order is enforced together with your own. Calls that would need
consent are denied. See docs/guides/abp.md.`,
		Example: `  copilot-bridge abp                        # as the command of a back end
  copilot-bridge abp verify receipt.json
  copilot-bridge abp canonical receipt.json | sha256sum
  copilot-bridge abp validate < session.jsonl`,
		Args: noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.runABP(cmd) },
	}
	flagsOf(cmd).demo()
	cmd.AddCommand(p.abpVerifyCommand(), p.abpCanonicalCommand(), p.abpValidateCommand())
	return cmd
}

// runABP serves one work order. Errors are told in the protocol, since that is
// all that the other side reads.
func (p *program) runABP(cmd *cobra.Command) error {
	ctx, in := p.interruptible(cmd.Context())
	defer in.stop()
	cfg, err := p.load(cmd)
	if err == nil {
		err = p.requireExecutable()
	}
	shows := p.progress()
	stop := shows.Begin("starting")
	o := p.options(cfg)
	o.DemoIfNone = false // a host would take its answers for Copilot's
	o.Progress = shows.Step
	s := app.BrokenSidecar(o, err)
	if err == nil {
		s = app.StartSidecar(ctx, o)
	}
	stop()
	defer p.close(ctx, s)
	err = s.Serve(ctx, p.env.Stdin, p.out, p.env.Dir)
	if bridge.CodeOf(err) == bridge.CodeBudget {
		return &exitError{code: exitPartly, err: err}
	}
	return err
}

// maxReceipt is the size of the largest file that is read.
const maxReceipt = 64 << 20

func (p *program) abpVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE…",
		Short: "Verify the hash of receipts",
		Long: `Compute the canonical SHA-256 of receipts and compare it with the stored one. A file holds
a receipt or the "final" envelope that contains it; - is standard input.

Exit code 1 if a hash is missing or differs, 2 if a file holds no valid receipt.`,
		Example: `  copilot-bridge abp verify receipt.json
  copilot-bridge abp verify receipts/*.json --json
  jq -c 'select(.t=="final").receipt' session.jsonl | copilot-bridge abp verify -`,
		Args: takes(cobra.MinimumNArgs(1), "one file or more"),
		RunE: func(_ *cobra.Command, args []string) error { return p.runABPVerify(args) },
	}
	flagsOf(cmd).json("write one JSON object a file")
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

func (p *program) runABPVerify(files []string) error {
	code, bad := exitDone, 0
	for _, name := range files {
		v := verdict{File: view.WithoutTokens(name)}
		r, err := p.readReceipt(name)
		switch {
		case err != nil:
			v.Error = view.WithoutTokens(err.Error())
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
		if err := p.show(v, v.String()); err != nil {
			return err
		}
	}
	if code == exitDone {
		return nil
	}
	return &exitError{code: code, told: true, err: &bridge.Error{Code: bridge.CodeConflict,
		Message: fmt.Sprintf("%d of %s could not be verified", bad, plural(len(files), "receipt"))}}
}

// String is the verdict for people.
func (v verdict) String() string {
	name := approval.Visible(v.File)
	switch {
	case v.Error != "":
		return "✗ " + name + ": no valid receipt: " + approval.Visible(v.Error) + "\n"
	case v.OK:
		return "✓ " + v.SHA256 + "  " + name + "\n"
	case v.Stored == nil:
		return "✗ " + v.SHA256 + "  " + name + ": no hash is stored\n"
	}
	return "✗ " + v.SHA256 + "  " + name + ": stored is " + approval.Visible(*v.Stored) + "\n"
}

func (p *program) abpCanonicalCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "canonical FILE",
		Short: "Print the bytes of a receipt that are hashed",
		Long: `Write the canonical form of a receipt to standard output: compact, keys sorted, null for
the hash, without a final line break. Its SHA-256 is the receipt's hash. - is standard
input.`,
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
	data, err := p.read(name, maxReceipt)
	if err != nil {
		return nil, err
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

func (p *program) abpValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate [FILE]",
		Short: "Check envelopes",
		Long: `Read envelopes line by line from FILE or standard input and write a line for each:
{"ok":true,"envelope":…} with the envelope in canonical form, or {"ok":false,"error":…}.
The exit code does not depend on the lines.`,
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
