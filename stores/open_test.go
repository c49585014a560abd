package stores_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/messages"
	"github.com/leasehold/leasehold/stores"
	"github.com/leasehold/leasehold/stores/dir"
	"github.com/leasehold/leasehold/stores/sqlite"
)

// place is where two embedded stores may be, and what was opened there.
type place struct {
	leases, durable string
	opened          []any
}

func (p *place) openLeases(ctx context.Context, create bool) (*sqlite.Store, error) {
	s, err := sqlite.Open(ctx, sqlite.Config{Path: p.leases, MustExist: !create})
	if err == nil {
		p.opened = append(p.opened, s)
	}
	return s, err
}

func (p *place) openDurable(ctx context.Context, create bool) (*dir.Store, error) {
	s, err := dir.Open(ctx, dir.Config{Root: p.durable, MustExist: !create})
	if err == nil {
		p.opened = append(p.opened, s)
	}
	return s, err
}

func within(folder string) *place {
	return &place{leases: filepath.Join(folder, "new", "leases.db"), durable: filepath.Join(folder, "also new", "copies")}
}

func TestOpen_CreatesWhatIsMissingAndDiscardsWhatWasNotUsed(t *testing.T) {
	folder := t.TempDir()
	p := within(folder)
	leases, durable, err := stores.Open(t.Context(), p.openLeases, p.openDurable)
	require.NoError(t, err)
	require.Len(t, p.opened, 2)
	other := within(folder)
	_, _, err = stores.Open(t.Context(), other.openLeases, other.openDurable)
	require.NoError(t, err, "two that are empty may be anybody's")
	require.NoError(t, stores.Discard(p.opened...))
	require.FileExists(t, p.leases, "somebody else has it open")
	_, err = stores.Bind(t.Context(), other.opened[0].(*sqlite.Store), other.opened[1].(*dir.Store))
	require.NoError(t, err)
	require.NoError(t, stores.Discard(other.opened...))
	require.FileExists(t, p.leases, "it was there before")
	_, err = leases.Deployment(t.Context())
	require.ErrorIs(t, err, messages.ErrClosed)
	_, err = durable.List(t.Context(), "")
	require.ErrorIs(t, err, messages.ErrClosed)

	alone := within(t.TempDir())
	_, _, err = stores.Open(t.Context(), alone.openLeases, alone.openDurable)
	require.NoError(t, err)
	require.NoError(t, stores.Discard(alone.opened...))
	require.NoDirExists(t, filepath.Dir(alone.leases))
	require.NoDirExists(t, filepath.Dir(alone.durable))
	used := within(t.TempDir())
	l, d, err := stores.Open(t.Context(), used.openLeases, used.openDurable)
	require.NoError(t, err)
	_, err = stores.Bind(t.Context(), l, d)
	require.NoError(t, err)
	require.NoError(t, stores.Discard(used.opened...))
	require.FileExists(t, used.leases, "it carries an identity")
	require.DirExists(t, used.durable)
}

// K1: a store that is gone is not made anew beside one that was served with it.
func TestK1_OpenMakesNoStoreBesideOneThatWasServed(t *testing.T) {
	for name, lose := range map[string]func(p *place) string{
		"leases":  func(p *place) string { return p.leases },
		"durable": func(p *place) string { return p.durable },
	} {
		t.Run(name, func(t *testing.T) {
			p := within(t.TempDir())
			l, d, err := stores.Open(t.Context(), p.openLeases, p.openDurable)
			require.NoError(t, err)
			_, err = stores.Bind(t.Context(), l, d)
			require.NoError(t, err)
			require.NoError(t, stores.Discard(p.opened...))
			require.NoError(t, os.Rename(lose(p), lose(p)+".away"))
			p.opened = nil
			_, _, err = stores.Open(t.Context(), p.openLeases, p.openDurable)
			require.ErrorIs(t, err, messages.ErrDeploymentMismatch)
			require.ErrorContains(t, err, p.leases)
			require.ErrorContains(t, err, p.durable)
			require.ErrorContains(t, err, "("+lose(p)+") does not exist")
			require.NoError(t, stores.Discard(p.opened...))
			require.NoFileExists(t, lose(p))
		})
	}
}

// Another first start may make both stores between the two looks of this one.
func TestOpen_FindsWhatAnotherFirstStartHasMadeSince(t *testing.T) {
	p := within(t.TempDir())
	raced := false
	leases := func(ctx context.Context, create bool) (*sqlite.Store, error) {
		s, err := p.openLeases(ctx, create)
		if !raced {
			raced = true
			require.ErrorIs(t, err, messages.ErrNotFound)
			faster := within(filepath.Dir(filepath.Dir(p.leases)))
			l, d, err := stores.Open(ctx, faster.openLeases, faster.openDurable)
			require.NoError(t, err)
			_, err = stores.Bind(ctx, l, d)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, stores.Discard(faster.opened...)) })
		}
		return s, err
	}
	l, d, err := stores.Open(t.Context(), leases, p.openDurable)
	require.NoError(t, err)
	require.NoError(t, stores.CheckBound(t.Context(), l, d))
	require.NoError(t, stores.Discard(p.opened...))
}
