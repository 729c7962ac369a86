//go:build !unix

package main

func flockPeer(*worker) []errand { return nil }
