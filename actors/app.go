package actors

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/ledgeractor"
	"github.com/leasehold/leasehold/messages"
)

// App describes the application in a node: which ledgers it can open, and which commands it knows. Members of a cluster
// tell each other.
type App struct {
	// Schema is the version of its newest migration, Fingerprint recognizes the list of them.
	Schema      int    `json:"schema"`
	Fingerprint string `json:"fingerprint"`
	// Commands are the names of its commands, sorted.
	Commands []string `json:"commands,omitempty"`
}

// Knows reports whether the application has a command.
func (a App) Knows(command string) bool {
	_, found := slices.BinarySearch(a.Commands, command)
	return found
}

// App returns the application in this node.
func (n *Node) App() App {
	return App{Schema: ledgeractor.Newest(n.cfg.Migrations), Fingerprint: ledgeractor.Fingerprint(n.cfg.Migrations), Commands: slices.Sorted(maps.Keys(n.cfg.Commands))}
}

// Wants returns what a tenant that this node serves asks of a node that it is moved to: the version of its newest migration
// (ledgeractor.Needs), and the commands that were called here since the tenant was opened. It waits for nothing.
func (n *Node) Wants(key messages.Key) (schema int, commands []string) {
	act, ok := n.active.Load(key)
	if !ok || !act.(*activation).serving.Load() {
		return 0, nil
	}
	act.(*activation).called.Range(func(command, _ any) bool {
		commands = append(commands, command.(string))
		return true
	})
	return int(act.(*activation).needs.Load()), commands
}

// knows reports whether a command is registered. A call of one that is not creates no tenant.
func (n *Node) knows(command string) bool { return n.cfg.Commands[command] != nil }

// callOf notes a call of a command.
func (a *activation) callOf(command string) {
	if a.node.knows(command) {
		a.called.LoadOrStore(command, nil)
	}
}
