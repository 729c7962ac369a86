// Package browser shows in headless Chromium that the page of turnwise serve works. Its tests are skipped where there is no
// Chromium.
package browser
