package postgres_test

import (
	"testing"

	"github.com/leasehold/leasehold/stores/internal/sqllease/sqltest"
	"github.com/leasehold/leasehold/stores/storetest/servers"
)

var common = &sqltest.Common{Launch: servers.PostgreSQL}

func TestMain(m *testing.M) { common.Main(m, open) }
