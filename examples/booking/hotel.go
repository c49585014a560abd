package main

import (
	"errors"
	"fmt"
	"sync"
)

var errSoldOut = errors.New("sold out")

// Hotel is the other side: a system of somebody else's that takes an idempotency key. All methods are
// safe for concurrent use.
type Hotel struct {
	mu       sync.Mutex
	free     int
	reserved map[string]string // by booking id
}

// NewHotel returns a hotel with so many free rooms.
func NewHotel(free int) *Hotel { return &Hotel{free: free, reserved: map[string]string{}} }

// Reserve takes a room and returns a reference. The same id gets the same room.
func (h *Hotel) Reserve(id string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ref, ok := h.reserved[id]; ok {
		return ref, nil
	}
	if h.free == 0 {
		return "", errSoldOut
	}
	h.free--
	h.reserved[id] = fmt.Sprintf("room-%d", len(h.reserved)+1)
	return h.reserved[id], nil
}

// Reserved returns how many rooms are taken.
func (h *Hotel) Reserved() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.reserved)
}
