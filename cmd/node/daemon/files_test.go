package daemon

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenBound(t *testing.T) {
	for _, tt := range []struct {
		files         uint64
		maxOpen, want int
	}{
		{0, 100, 1}, {64, 100, 1}, {69, 100, 1}, {74, 100, 2}, {256, 100, 38}, {1024, 100, 100}, {1024, 10_000, 192},
		{16_384, 2_000, 2_000}, {math.MaxUint64, 10_000, 10_000},
	} {
		require.Equal(t, tt.want, openBound(tt.files, tt.maxOpen), "%d files", tt.files)
	}
}
