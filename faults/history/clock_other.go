//go:build !linux

package history

import (
	"sync"
	"time"
)

var start = time.Now()

func now() int64 { return int64(time.Since(start)) }

func spread() int64 { return 0 }

var origin = sync.OnceValue(processOrigin)
