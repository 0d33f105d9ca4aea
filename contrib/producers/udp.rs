//! Counts the datagrams that arrive at a UDP port of the loopback, with libpercore.
//! Build: rustc -O udp.rs -l percore
//! Usage: udp PORT DATAGRAMS
//! Ends after this many datagrams. `percore top udprs` shows them meanwhile.
//! The library makes the row; updates are stores to its words: percore(3), OTHER LANGUAGES.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{env, net::UdpSocket, os::raw::*, ptr};

#[repr(C)]
struct Field { // struct percore_field
    name: *const u8, unit: *const u8, help: *const u8, kind: c_int,
    aggregation: c_int, sub_bits: u32, max_bits: u32, states: *const c_void, state_count: u32,
}
#[repr(C)]
struct Description { // struct percore_table
    name: *const u8, help: *const u8, storage: c_int, fields: *const Field,
    field_count: u32, max_rows: u32, row_name_size: u32, key: c_int, row_align: u32, flags: u32,
}
#[repr(C)] #[derive(Clone, Copy)]
struct Slot(*mut c_void); // percore_slot_t
#[repr(C)]
struct Table { rows: *mut u8, place: *const c_void, stride: u32, max_rows: u32 } // percore_table_t

extern "C" {
    fn percore_create_(name: *const u8, tables: *const Description, count: u32,
                       options: *const c_void, options_size: usize) -> *mut c_void;
    fn percore_row_add(region: *mut c_void, table: u32, name: *const u8, key: u64) -> u32;
    fn percore_attach(region: *mut c_void, name: *const u8, core: c_int) -> Slot;
    fn percore_table(slot: Slot, table: u32) -> Table;
}

/// Only this thread writes the word, so a load and a store lose no count.
fn add(cell: &AtomicU64, n: u64) { cell.store(cell.load(Relaxed) + n, Relaxed) }

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = env::args().collect();
    let field = |name: &str, unit: &str| Field { name: name.as_ptr(), unit: unit.as_ptr(), kind: 0,
        help: ptr::null(), aggregation: 0, sub_bits: 0, max_bits: 0, states: ptr::null(),
        state_count: 0 };
    let fields = [field("rx_packets\0", "packets\0"), field("rx_bytes\0", "bytes\0")];
    let tables = Description { name: "port\0".as_ptr(), fields: fields.as_ptr(), field_count: 2,
        max_rows: 16, row_name_size: 24, help: ptr::null(), storage: 0, key: 0, row_align: 0, flags: 0 };
    let name = arguments[1].clone() + "\0";
    let cells = unsafe {
        let region = percore_create_("udprs\0".as_ptr(), &tables, 1, ptr::null(), 0);
        let number = percore_row_add(region, 0, name.as_ptr(), 0);
        let table = percore_table(percore_attach(region, "main\0".as_ptr(), -1), 0);
        let row = table.rows.add(table.stride as usize * number as usize) as *const AtomicU64;
        std::slice::from_raw_parts(row, fields.len())
    };
    let port = UdpSocket::bind(("127.0.0.1", arguments[1].parse().unwrap()))?;
    let mut buffer = [0; 65535];
    for _ in 0..arguments[2].parse::<u64>().unwrap() {
        let size = port.recv(&mut buffer)?;
        add(&cells[0], 1); // rx_packets
        add(&cells[1], size as u64); // rx_bytes
    }
    Ok(())
}
