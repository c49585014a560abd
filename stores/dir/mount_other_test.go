//go:build !linux

package dir_test

import "errors"

func mountSmall(string) error { return errors.ErrUnsupported }
