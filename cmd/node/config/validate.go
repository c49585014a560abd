package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/cmd/node/storeurl"
	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/messages/planted"
)

// Validate returns an error that names every setting at fault, by its name in the file. It opens
// no store, and reads no file but those that settings name: tokens, keys, certificates, and what is in a store's URL. A nil checker
// stands for a binary without a NATS server in it. Every error has CodeInvalidArgument or CodeOutOfRange.
func (c Config) Validate(schemes storeurl.Schemes, checker Checker) error {
	given := c
	c = c.Effective()
	v := &validator{}
	v.listen(c)
	v.tls(c)
	v.nats(c, schemes, checker)
	onNATS := c.NATSURL() != "" // then what follows from it has been checked, under its own name
	if given.Leases != "" || !onNATS {
		v.store("leases", schemes.CheckLeases(c.Leases))
	}
	if given.Durable != "" || !onNATS {
		v.store("durable", schemes.CheckDurable(c.Durable))
	}
	if c.Migrate && schemes.CheckLeases(c.Leases) == nil {
		v.store("migrate", schemes.CheckMigrate(c.Leases))
	}
	v.files(c)
	v.insecure(given, c, checker)
	v.lease(c)
	for _, f := range c.positive() {
		if f.value <= 0 {
			v.fail(f.name, "must be above 0, is %v", f.shown)
		}
	}
	if c.RetainAge < 0 {
		v.fail("retain_age", "must not be negative, is %v", c.RetainAge)
	}
	if c.MaxUnsaved <= c.SnapshotEvery {
		v.fail("max_unsaved", "%v leaves no time for a snapshot every %v (snapshot_every)", c.MaxUnsaved, c.SnapshotEvery)
	}
	if c.Retain < 0 {
		v.fail("retain", "must not be negative, is %d", c.Retain)
	}
	if c.ShutdownLinger < 0 {
		v.fail("shutdown_linger", "must not be negative, is %v", c.ShutdownLinger)
	}
	if c.MaxTimeout < c.RequestTimeout {
		v.fail("max_timeout", "%v is below request_timeout, %v", c.MaxTimeout, c.RequestTimeout)
	}
	if c.MaxRequestBytes < max(c.MaxBody, messages.MaxMessageBytes) {
		v.fail("max_request_bytes", "must be at least max_body, %d, and %d: one request must have room", c.MaxBody, messages.MaxMessageBytes)
	}
	if c.MaxHeader < 4096 {
		v.fail("max_header", "must be at least 4096 bytes, is %d", c.MaxHeader)
	}
	if !slices.Contains([]string{"text", "json"}, c.LogFormat) {
		v.fail("log_format", "must be text or json, is %q", c.LogFormat)
	}
	if _, err := c.Level(); err != nil {
		v.fail("log_level", "must be debug, info, warn or error, is %q", c.LogLevel)
	}
	if _, err := planted.Parse(c.Planted); err != nil {
		v.fail("planted", "%v", err)
	} else if c.Planted != "" && !c.UnsafePlanted {
		v.fail("planted", "switches protocol rules off, so that tenants may lose data; it needs unsafe_planted too")
	}
	if v.errs == nil {
		v.runtime(c)
	}
	return errors.Join(v.errs...)
}

type validator struct{ errs []error }

func (v *validator) fail(field, format string, args ...any) {
	v.errs = append(v.errs, &messages.Error{Code: messages.CodeInvalidArgument, Message: field + ": " + fmt.Sprintf(format, args...)})
}

// runtime asks the runtime for what it would refuse, should it know more than the rules above.
func (v *validator) runtime(c Config) {
	cfg, err := c.Node()
	if err == nil {
		err = errors.Join(cfg.Validate(), cfg.Limits.Validate())
	}
	if err != nil {
		v.errs = append(v.errs, err)
	}
}

func (v *validator) listen(c Config) {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		v.fail("listen", "%q is not HOST:PORT", c.Listen)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		v.fail("listen", "%q has no port from 0 to 65535", c.Listen)
	}
	if !c.Loopback() && c.TokenFile == "" {
		v.fail("token_file", "is needed to listen on %s, which is not a loopback address", c.Listen)
	}
}

func (v *validator) store(field string, err error) {
	if err != nil {
		v.fail(field, "%s", messages.AsError(err).Message)
	}
}

func (v *validator) files(c Config) {
	if c.StateRoot == "" {
		v.fail("state_root", "is empty")
	}
	if info, err := os.Stat(c.StateRoot); err == nil && !info.IsDir() {
		v.fail("state_root", "%s is not a folder", c.StateRoot)
	}
	if c.TokenFile != "" {
		if _, err := c.Tokens(); err != nil {
			v.fail("token_file", "%v", err)
		}
	}
	for org := range c.OrgKey {
		if _, err := c.orgKey(org); err != nil {
			v.fail("orgs."+org, "%v", err)
		}
	}
}

func (v *validator) lease(c Config) {
	if err := messages.ValidateTTL(c.TTL); err != nil {
		v.errs = append(v.errs, &messages.Error{Code: messages.CodeOutOfRange, Message: "ttl: " + messages.AsError(err).Message})
		return
	}
	if c.Margin < 0 || c.Margin >= c.TTL {
		v.fail("margin", "%v is not from 0 to below the ttl, %v", c.Margin, c.TTL)
	} else if c.RenewEvery <= 0 || c.RenewEvery >= c.TTL-c.Margin {
		v.fail("renew_every", "%v does not fit into the window of ttl - margin, %v", c.RenewEvery, c.TTL-c.Margin)
	}
	if c.NodeName != "" {
		if err := messages.ValidateOwner(c.NodeName); err != nil {
			v.fail("node_name", "%s", messages.AsError(err).Message)
		}
	}
}

type positive struct {
	name  string
	value int64
	shown any
}

// positive returns the settings that must be above 0.
func (c Config) positive() []positive {
	var out []positive
	num := func(name string, n int64) { out = append(out, positive{name, n, n}) }
	dur := func(name string, d time.Duration) { out = append(out, positive{name, int64(d), d}) }
	num("max_body", c.MaxBody)
	num("max_connections", int64(c.MaxConnections))
	num("max_open", int64(c.MaxOpen))
	num("max_requests", int64(c.MaxRequests))
	num("max_tenant_requests", int64(c.MaxTenantRequests))
	num("max_transfers", int64(c.MaxTransfers))
	num("handoff_parallel", int64(c.HandoffParallel))
	num("max_rows", int64(c.MaxRows))
	num("max_result", c.MaxResult)
	num("max_value", int64(c.MaxValue))
	num("max_sql", int64(c.MaxSQL))
	num("max_image", c.MaxImage)
	num("max_queries", int64(c.MaxQueries))
	num("query_memory", c.QueryMemory)
	num("moves_per_second", int64(c.MovesPerSecond))
	num("move_parallel", int64(c.MoveParallel))
	dur("heartbeat", c.Heartbeat)
	dur("read_header_timeout", c.ReadHeaderTimeout)
	dur("read_timeout", c.ReadTimeout)
	dur("keep_alive", c.KeepAlive)
	dur("request_timeout", c.RequestTimeout)
	dur("shutdown_timeout", c.ShutdownTimeout)
	dur("store_timeout", c.StoreTimeout)
	dur("durable_timeout", c.DurableTimeout)
	dur("snapshot_every", c.SnapshotEvery)
	num("max_unsaved_bytes", c.MaxUnsavedBytes)
	dur("sweep_every", c.SweepEvery)
	dur("set_aside_for", c.SetAsideFor)
	dur("start_timeout", c.StartTimeout)
	dur("open_timeout", c.OpenTimeout)
	dur("query_timeout", c.QueryTimeout)
	return out
}
