//go:build !linux

package servers

func (s *Server) launch() error { return ErrNotInstalled }

func descendants(int) []int { return nil }
