// Package contract is the Agent Backplane's contract abp/v0.1 as bytes:
// envelopes, work orders, events and receipts, how they are read and written,
// and the canonical form of a receipt with its hash. The other side of the
// pipe recomputes that hash, so everything here follows what serde_json does
// with ABP's own types, down to how a number is rounded.
//
// It runs nothing and touches no file. The sidecar (door/abp) and the commands
// that check receipts use it.
package contract

// Version is the contract that is spoken.
const Version = "abp/v0.1"

// MaxLine is the longest line that the protocol knows.
const MaxLine = 16 << 20
