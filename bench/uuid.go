package main

import (
	"crypto/rand"
	"fmt"
	"time"
)

// randomKey is a UUID of version 4: what most clients send.
func randomKey() string {
	var u [16]byte
	rand.Read(u[:]) // never fails: it ends the program instead
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return uuidText(u)
}

// orderedKey is a UUID of version 7, which begins with a time.
func orderedKey(at time.Time) string {
	var u [16]byte
	rand.Read(u[:])
	ms := at.UnixMilli()
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i))
	}
	u[6], u[8] = u[6]&0x0f|0x70, u[8]&0x3f|0x80
	return uuidText(u)
}

func uuidText(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
