//! Counts the datagrams that arrive at a UDP port of the loopback, with libpercore.
//! Build: rustc -O udp.rs -l percore
//! Usage: udp PORT DATAGRAMS
//! Ends after this many datagrams. `percore top udprs` shows them meanwhile.
use std::{env, net::UdpSocket, os::raw::*, ptr};

#[repr(C)]
struct Field { // struct percore_field
    name: *const u8, unit: *const u8, help: *const u8, kind: c_int,
    aggregation: c_int, sub_bits: u32, max_bits: u32, states: *const c_void, state_count: u32,
}
#[repr(C)]
struct Table { // struct percore_table
    name: *const u8, help: *const u8, storage: c_int, fields: *const Field,
    field_count: u32, max_rows: u32, row_name_size: u32, key: c_int, row_align: u32, flags: u32,
}
#[repr(C)] #[derive(Clone, Copy)]
struct Slot(*mut c_void); // percore_slot_t
#[repr(C)] #[derive(Clone, Copy)]
struct CoreTable(usize, u32, u32); // percore_core_table_t
#[repr(C)] #[derive(Clone, Copy)]
struct CoreRow(*mut u64); // percore_core_row_t

extern "C" {
    fn percore_create(region: *mut *mut c_void, name: *const u8, tables: *const Table, count: u32,
                      options: *const c_void) -> c_int;
    fn percore_row_add(region: *mut c_void, table: u32, name: *const u8, row: *mut u32) -> c_int;
    fn percore_core_table(region: *mut c_void, table: u32, handle: *mut CoreTable) -> c_int;
    fn percore_attach(region: *mut c_void, name: *const u8, core: c_int, slot: *mut Slot) -> c_int;
    fn percore_core_row_fn(slot: Slot, table: CoreTable, row: u32) -> CoreRow;
    fn percore_add_fn(row: CoreRow, column: u32, n: u64);
    fn percore_detach(region: *mut c_void, slot: Slot) -> c_int;
    fn percore_destroy(region: *mut c_void) -> c_int;
}
fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let field = |name: &str, unit: &str| Field { name: name.as_ptr(), unit: unit.as_ptr(), kind: 0,
        help: ptr::null(), aggregation: 0, sub_bits: 0, max_bits: 0, states: ptr::null(),
        state_count: 0 };
    let fields = [field("rx_packets\0", "packets\0"), field("rx_bytes\0", "bytes\0")];
    let table = Table { name: "port\0".as_ptr(), fields: fields.as_ptr(), field_count: 2,
        max_rows: 16, row_name_size: 24, help: ptr::null(), storage: 0, key: 0, row_align: 0, flags: 0 };
    let (name, mut handle) = (arguments[1].clone() + "\0", CoreTable(0, 0, 0));
    let (mut region, mut number, mut slot) = (ptr::null_mut(), 0, Slot(ptr::null_mut()));
    let row = unsafe {
        percore_create(&mut region, "udprs\0".as_ptr(), &table, 1, ptr::null());
        percore_row_add(region, 0, name.as_ptr(), &mut number);
        percore_core_table(region, 0, &mut handle);
        percore_attach(region, "main\0".as_ptr(), -1, &mut slot); // by the thread that counts
        percore_core_row_fn(slot, handle, number)
    };
    let port = UdpSocket::bind(("127.0.0.1", arguments[1].parse().unwrap()))?;
    let mut buffer = [0; 65535];
    for _ in 0..arguments[2].parse::<u64>().unwrap() {
        let size = port.recv(&mut buffer)?;
        unsafe { percore_add_fn(row, 0, 1); percore_add_fn(row, 1, size as u64) }
    }
    unsafe { percore_detach(region, slot); percore_destroy(region) };
    Ok(())
}
