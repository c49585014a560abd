package sizing_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/stores/s3/s3test"
)

func TestMain(m *testing.M) {
	s3test.Main()
	goleak.VerifyTestMain(m)
}
