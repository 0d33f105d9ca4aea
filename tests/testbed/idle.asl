/* An idle state of the first core of QEMU's PC, which the idle driver acpi_idle uses:
 * C1, entered by HLT, with an exit latency of 2 us. */
DefinitionBlock ("", "SSDT", 2, "PERCOR", "IDLE", 1)
{
  External (\_SB.CPUS.C000, DeviceObj)
  Scope (\_SB.CPUS.C000)
  {
    Name (_CST, Package ()
    {
      1,
      Package () { ResourceTemplate () { Register (FFixedHW, 0, 0, 0) }, 1, 2, 1000 }
    })
  }
}
