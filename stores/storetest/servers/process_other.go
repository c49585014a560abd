//go:build !linux

package servers

func (s *Server) launch() error { return ErrNotInstalled }

func ended(int) bool { return true }

func descendants(int) []int { return nil }
