package postgres_test

import "testing"

func BenchmarkRenew(b *testing.B) { subject.Bench(b) }
