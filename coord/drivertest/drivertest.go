// Package drivertest is the conformance suite that every driver passes.
//
// The author of a driver fills in a [Service] and calls [Run] from a test:
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, func(t testing.TB) *drivertest.Service { … })
//	}
//
// There is a subtest for each obligation of package driver, with a scenario below it for each way of showing it. The
// faults are those of the link and of the service, made by the harness; the suite itself knows no service.
package drivertest

import "testing"

// Run checks a driver. start is called once; all scenarios use the service that it returns.
func Run(t *testing.T, start func(t testing.TB) *Service) {
	svc := start(t)
	if svc.Connect == nil || svc.TTL <= 0 || svc.Stored == nil {
		t.Fatal("drivertest: the harness must give Connect, TTL and Stored")
	}
}
