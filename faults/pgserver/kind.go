//go:build linux || darwin

package pgserver

import "github.com/fiftyhosts/fifty/faults/internal/keeper"

// kind is what keepers of this package's servers are called.
const kind = "pgserver"

// A process that is started as a keeper is one before any test starts.
func init() { keeper.Main(kind, removeSharedMemory) }
