package config

import (
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/leasehold/leasehold/internal/smallfile"
	"github.com/leasehold/leasehold/messages"
)

// MinTokenBytes is the shortest bearer token that is taken: 16 random bytes in hex.
const MinTokenBytes = 32

// Tokens reads the token file: a token a line, without spaces; blank lines and lines that begin with
// # are skipped. The errors name lines, never their content. No token file: no tokens.
func (c Config) Tokens() ([]string, error) {
	if c.TokenFile == "" {
		return nil, nil
	}
	text, err := readSecret(c.TokenFile)
	if err != nil {
		return nil, err
	}
	var tokens []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case len(line) < MinTokenBytes:
			return nil, fmt.Errorf("%s: the token in line %d has fewer than %d bytes", c.TokenFile, n, MinTokenBytes)
		case strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("%s: the token in line %d holds a space, or is not ASCII", c.TokenFile, n)
		default:
			tokens = append(tokens, line)
		}
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s: holds no token", c.TokenFile)
	}
	return tokens, nil
}

// OrgKeys reads the keys that tenant ids are derived with, by organization.
func (c Config) OrgKeys() (map[messages.OrgID][]byte, error) {
	keys := make(map[messages.OrgID][]byte, len(c.OrgKey))
	for org := range c.OrgKey {
		key, err := c.orgKey(org)
		if err != nil {
			return nil, fmt.Errorf("orgs.%s: %w", org, err)
		}
		keys[messages.OrgID(org)] = key
	}
	return keys, nil
}

func (c Config) orgKey(org string) ([]byte, error) {
	if err := messages.OrgID(org).Validate(); err != nil {
		return nil, err
	}
	path := c.OrgKey[org]
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil {
		// Not the error: it quotes what it could not read.
		return nil, fmt.Errorf("%s: is not hex digits", path)
	}
	if len(key) < messages.MinKeyBytes {
		return nil, fmt.Errorf("%s: has %d bytes, needs at least %d (%d hex digits)", path, len(key), messages.MinKeyBytes, 2*messages.MinKeyBytes)
	}
	return key, nil
}

func readSecret(path string) (string, error) {
	data, err := smallfile.Read(path)
	return string(data), err
}

// Level returns the level of the log.
func (c Config) Level() (slog.Level, error) {
	var level slog.Level
	err := level.UnmarshalText([]byte(c.LogLevel))
	return level, err
}

// Logger returns the node's log, and the level that it keeps to.
func (c Config) Logger(w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{} // info
	if l, err := c.Level(); err == nil {
		level.Set(l)
	} // else Validate says so
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}
