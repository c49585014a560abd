package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/actors"
	"github.com/leasehold/leasehold/messages"
)

// childEnv makes the test binary a process that is about to be killed; its value is the state root.
const childEnv = "BOOKING_CHILD_ROOT"

// nodeEnv makes it the node binary.
const nodeEnv = "BOOKING_NODE"

var tripTwo = Request{ID: "trip-2", Room: "single", PriceCents: 9900}

func TestMain(m *testing.M) {
	if root := os.Getenv(childEnv); root != "" {
		if err := child(root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(nodeEnv) != "" {
		os.Exit(node(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// child books trip-1, takes a snapshot, begins trip-2, says so, and waits to be killed.
func child(root string) error {
	ctx := context.Background()
	cfg := config(root)
	cfg.SnapshotEvery = 1 << 40 // so that trip-2 is what the crash loses
	n, err := actors.Start(ctx, cfg)
	if err != nil {
		return err
	}
	tenant, err := openUser(ctx, n)
	if err != nil {
		return err
	}
	agent := Agent{Ledger: tenant, Hotel: NewHotel(2)}
	if _, err := agent.Book(ctx, Request{ID: "trip-1", Room: "double", PriceCents: 12900}); err != nil {
		return err
	}
	if _, err := tenant.Snapshot(ctx); err != nil {
		return err
	}
	if _, err := agent.call(ctx, "book", tripTwo); err != nil {
		return err
	}
	fmt.Println("pending")
	_, err = bufio.NewReader(os.Stdin).ReadString('\n') // never comes
	return err
}

func TestTheDemonstration(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), t.TempDir(), &out))
	text := out.String()
	require.Contains(t, text, "book trip-1: confirmed (seq 2) room-1")
	require.Contains(t, text, "the node crashed while trip-2 was pending")
	require.Contains(t, text, "room-2")
	require.Contains(t, text, "sold out")
	require.Contains(t, text, "confirmed: 2 booking(s), 22800 cents\n")
	require.Contains(t, text, "compensated: 1 booking(s), 30000 cents\n")
	require.Contains(t, text, "rooms taken at the hotel: 2\n")
}

// A process is killed with SIGKILL while a booking is pending. What no snapshot held is lost, and a
// retry with the same id makes one booking all the same.
func TestARetryAfterKillGivesOneBooking(t *testing.T) {
	root := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+root)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "pending\n", line)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait(), "it was killed")
	_ = stdin.Close()

	n, err := actors.Start(t.Context(), config(root))
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Shutdown(context.Background())) }()
	tenant, err := openUser(t.Context(), n) // waits out the lease of the dead process
	require.NoError(t, err)
	require.Equal(t, [][]any{{"trip-1", "confirmed"}}, rowsOf(t, tenant, "SELECT id, state FROM bookings"), "the declared loss")

	agent := Agent{Ledger: tenant, Hotel: NewHotel(5)}
	first, err := agent.Book(t.Context(), tripTwo)
	require.NoError(t, err)
	require.Equal(t, stateConfirmed, first.State)
	again, err := agent.Book(t.Context(), tripTwo)
	require.NoError(t, err)
	require.Equal(t, first, again, "a retry gets the same receipt")
	require.Equal(t, [][]any{{"trip-1", "confirmed"}, {"trip-2", "confirmed"}}, rowsOf(t, tenant, "SELECT id, state FROM bookings ORDER BY id"))
	require.Equal(t, [][]any{{int64(1)}}, rowsOf(t, tenant, "SELECT count(*) FROM events WHERE subject_id = 'trip-2' AND kind = 'booking.pending'"))
	require.Equal(t, 1, agent.Hotel.Reserved())
}

func rowsOf(t *testing.T, tenant *actors.Tenant, sql string) [][]any {
	t.Helper()
	result, err := tenant.Query(t.Context(), sql)
	require.NoError(t, err)
	return result.Rows
}

// nodeProcess starts the node binary with the booking commands in it, and returns its address.
func nodeProcess(t *testing.T, root string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "run", "--node-name=n", "--state-root="+root, "--listen=127.0.0.1:0", "--ttl=1s",
		"--snapshot-every=1h", "--shutdown-linger=1ms")
	cmd.Env = append(os.Environ(), nodeEnv+"=1", "GORACE=atexit_sleep_ms=0") // by default a race build sleeps at its end
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	_, address, ok := strings.Cut(strings.TrimSpace(line), " ")
	require.True(t, ok, line)
	return cmd, address
}

// The same flow over HTTP, across a kill -9 of the node and its restart.
func TestOverHTTP(t *testing.T) {
	root := t.TempDir()
	id, err := messages.DeriveTenant(bytes.Repeat([]byte{7}, 32), "https://idp.example/acme", "user-1")
	require.NoError(t, err)
	hotel, client := NewHotel(1), &http.Client{}
	defer client.CloseIdleConnections()
	var receipts []Receipt
	for life := range 2 {
		cmd, address := nodeProcess(t, root)
		agent := Agent{Ledger: Client{HTTP: client, Base: address, Key: messages.Key{Org: "acme", Tenant: id}}, Hotel: hotel}
		r, err := agent.Book(t.Context(), tripTwo)
		require.NoError(t, err)
		receipts = append(receipts, r)
		sold, err := agent.Book(t.Context(), Request{ID: "trip-3", Room: "suite", PriceCents: 1})
		require.NoError(t, err)
		require.Equal(t, stateCompensated, sold.State)

		_, err = agent.call(t.Context(), "book", Request{ID: tripTwo.ID, Room: "another"})
		require.ErrorIs(t, err, messages.ErrInvalidArgument)
		_, err = agent.call(t.Context(), "nonsense", struct{}{})
		require.ErrorIs(t, err, messages.ErrNotFound)
		if life == 0 {
			require.NoError(t, cmd.Process.Kill()) // no snapshot was taken: the ledger loses both bookings
			require.Error(t, cmd.Wait())
			continue
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), "every tenant was handed off")
	}
	require.Equal(t, receipts[0], receipts[1])
	require.Equal(t, 1, hotel.Reserved())
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	n, err := actors.Start(t.Context(), config(t.TempDir()))
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Shutdown(context.Background())) }()
	tenant, err := openUser(t.Context(), n)
	require.NoError(t, err)
	for name, call := range map[string]struct{ command, in string }{
		"no id":           {"book", `{"room":"double","price_cents":1}`},
		"negative price":  {"book", `{"id":"a","room":"double","price_cents":-1}`},
		"unknown field":   {"book", `{"id":"a","room":"double","price":1}`},
		"not an object":   {"book", `[1]`},
		"no such booking": {"confirm", `{"id":"nope","reference":"r"}`},
		"no reference":    {"confirm", `{"id":"nope"}`},
		"nothing to undo": {"compensate", `{"id":"nope","reason":"r"}`},
		"a huge id":       {"book", `{"id":"` + strings.Repeat("x", 4096) + `","room":"r","price_cents":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tenant.Call(t.Context(), call.command, json.RawMessage(call.in))
			require.Contains(t, []messages.Code{messages.CodeInvalidArgument, messages.CodeTooLarge}, messages.CodeOf(err), "%v", err)
		})
	}
	require.Empty(t, rowsOf(t, tenant, "SELECT id FROM bookings"))
	require.Empty(t, rowsOf(t, tenant, "SELECT seq FROM events"))
}
